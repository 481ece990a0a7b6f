"""What a source says, checked: records, references in place of secrets, suspicious texts."""
