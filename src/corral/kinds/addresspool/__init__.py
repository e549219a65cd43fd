"""AddressPool: addresses that Wukongs of a namespace get theirs from, each leased by its name."""
