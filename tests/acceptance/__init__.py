"""The whole product on real OpenSSH and real container engines."""
