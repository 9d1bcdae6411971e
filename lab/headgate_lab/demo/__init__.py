"""The demonstration: a skewed stream whose hot keys move, hash routing beside a policy, on a real Spark."""
