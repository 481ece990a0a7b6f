// Takes away what stands under these categories; the categories under them stay.
// params: ids list<string>
// returns: none
UNWIND $ids AS id MATCH (:Category {id: id})-[has:HAS]->(:Category) DELETE has
