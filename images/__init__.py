"""Container images, made from Debian packages and the scripts in this folder, without a container daemon."""
