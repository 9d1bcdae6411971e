"""`headgate chaos`: the product's own stage, loop and storage in a world whose time, chance and failures are made up."""
