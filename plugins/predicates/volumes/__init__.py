"""Rules about volumes: PersistentVolumeClaims, limits of CSI drivers, zones, disks that pods name themselves."""
