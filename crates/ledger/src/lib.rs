//! The host-cost record shared between layers and the program that reads it.
