//! OpenCL layer that charges a set time for each cold destination page.
