"""Reading and writing files safely: nothing that a file says is executed, and nothing is left half written."""
