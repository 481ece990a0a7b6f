// Forgets what was called after what.
// params: none
// returns: none
MATCH ()-[followed:FOLLOWED_BY]->() DELETE followed
