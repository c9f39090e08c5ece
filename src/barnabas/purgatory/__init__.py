"""The purgatory: delayed operations, their timer, and a hierarchical timing wheel."""
