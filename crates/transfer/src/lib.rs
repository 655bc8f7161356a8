//! Host and device transfers: plan, mechanisms, policy.
