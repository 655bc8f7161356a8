//! Mapped memory: residency, prefault, views.
