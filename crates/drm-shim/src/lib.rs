//! Observes or emulates sync ioctls of unmodified programs.
