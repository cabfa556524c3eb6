"""capacity-dra: quotas of devices by DeviceClass (after the design of Volcano's DRA quota)."""
