"""Operations that wait: a hierarchical timing wheel, and what is delayed on it."""
