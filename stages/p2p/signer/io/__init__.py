"""The remote signer's client, its TLS files, and the file of signed blocks."""
