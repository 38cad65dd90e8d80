"""The kinds of signals that drivers report."""

XID = "xid"  # a numbered error of NVIDIA's driver
RECOVERY_ACTION = "recovery_action"  # what NVIDIA's driver itself asks for
UNCORRECTABLE_ECC = "uncorrectable_ecc"  # of a device that cannot replace rows of its memory
REMAPPABLE_ECC = "remappable_ecc"  # of one that can
CORRECTABLE_ECC = "correctable_ecc"
ECC_STORM = "ecc_storm"
ROW_REMAP_PENDING = "row_remap_pending"
ROW_REMAP_FAILED = "row_remap_failed"
PAGE_RETIREMENT_PENDING = "page_retirement_pending"
LINK_DOWN = "link_down"  # NVLink
SWITCH_FAILED = "switch_failed"  # a fatal SXID
LINK_FATAL = "link_fatal"  # what the log calls fatal of an NVLink; its code is the XID
PCIE_NARROW = "pcie_narrow"
PCIE_SLOW = "pcie_slow"
POWER_LIMITED = "power_limited"
HARDWARE_SLOWDOWN = "hardware_slowdown"
LOST = "lost"  # the driver no longer reaches it
DRIVER_GONE = "driver_gone"
NOT_READ = "not_read"  # the plugin could not read its state
MIG_UNWANTED = "mig_unwanted"  # partitioned, where the pool wants whole devices
MIG_MISSING = "mig_missing"  # whole, where the pool wants instances
# AMD's
AMD_UNCORRECTABLE = "amd_uncorrectable"
BAD_PAGES = "bad_pages"
NO_NUMBER = "no_number"
RESET = "reset"
RESET_FAILED = "reset_failed"
RING_TIMEOUT = "ring_timeout"
