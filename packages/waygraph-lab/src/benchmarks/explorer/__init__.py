"""The explorer's pages: in a cold browser, in movement, and for people who browse during a sync."""
