//! OpenCL layer that charges a set time for each cold destination page: an emulation of machines on
//! which the driver's path pays a round trip per fault (59 us per page on the seed's machine).
//!
//! It stands between towpath's layer and a real driver, and needs nothing of the program:
//!
//! ```text
//! OPENCL_LAYERS=libtowpath_penalty_layer.so:libtowpath_opencl_layer.so PROGRAM
//! ```
//!
//! The loader calls the last layer of the list first, so the product's layer comes after this one.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `TOWPATH_PENALTY_NS_PER_PAGE` | time for each page still cold when the call arrives, in ns | 59000 |
//! | `TOWPATH_PENALTY_MODE` | `sleep` or `busy` (burn CPU) | `sleep` |
//! | `TOWPATH_PENALTY_LOG` | file to which each read adds a line: call, bytes, pages, cold pages | none |

mod calls;
mod charge;
mod layer;

pub use charge::{Price, Way};
