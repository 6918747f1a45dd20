"""The fuzz targets, by what sends the bytes that they read."""
