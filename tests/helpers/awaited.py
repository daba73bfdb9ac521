"""Studies whose full run is still to be made, so that no result of them is shipped yet."""

AWAITED = {"dialogue"}
