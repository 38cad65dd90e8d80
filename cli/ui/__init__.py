"""The page of `slipway ui`: pure code makes it of what the platform says, thin code serves it."""
