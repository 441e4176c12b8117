"""rnnbridge's engine as layers of other frameworks, one package each. Importing this imports no framework."""
