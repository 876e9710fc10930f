"""Memory: items in tiers, and the operations that change them."""
