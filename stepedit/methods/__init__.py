"""How a text is edited: one file per method, all behind the contract in `method`. Methods have no parameters."""
