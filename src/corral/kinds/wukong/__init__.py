"""Wukong: a virtual machine with its networks and disks."""
