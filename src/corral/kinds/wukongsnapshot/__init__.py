"""WukongSnapshot: the disks of a Wukong as they were at one moment."""
