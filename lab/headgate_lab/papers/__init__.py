"""The five papers rerun: one package each, all ending in a table of claims (`claims`)."""
