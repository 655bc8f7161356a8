//! The bytes of a calibration file: JSON whose head is fixed and holds a checksum of the rest.
//!
//! ```text
//! {"schema":"SCHEMA","checksum":"16 hex digits","body":BODY}\n
//! ```
//!
//! The checksum is FNV-1a (64 bits) of BODY's bytes. Each of its steps is a bijection, so that any
//! change within one byte is found; the fixed head finds the changes outside BODY.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;

/// Writes `body` as the bytes of a file.
pub(super) fn seal<T: Serialize>(schema: &str, body: &T) -> Result<Vec<u8>, Error> {
    let body = serde_json::to_string(body).map_err(|source| Error::Form { source })?;
    let mut bytes = head(schema, checksum(body.as_bytes())).into_bytes();
    bytes.extend_from_slice(body.as_bytes());
    bytes.extend_from_slice(TAIL);
    Ok(bytes)
}

/// Reads back what [`seal`] wrote under the same schema.
pub(super) fn open<T: DeserializeOwned>(
    schema: &str,
    bytes: &[u8],
    path: &Path,
) -> Result<T, Error> {
    let damaged = |reason| Error::Damaged {
        path: path.to_owned(),
        reason,
    };
    let head_bytes = head(schema, 0).len();
    let (found, rest) = bytes
        .split_at_checked(head_bytes)
        .ok_or_else(|| damaged("it is too short"))?;
    let body = rest
        .strip_suffix(TAIL)
        .ok_or_else(|| damaged("its end is missing"))?;
    if found != head(schema, checksum(body)).as_bytes() {
        return Err(damaged("its version or checksum is another"));
    }
    serde_json::from_slice(body).map_err(|source| Error::Form { source })
}

const TAIL: &[u8] = b"}\n";

fn head(schema: &str, checksum: u64) -> String {
    format!("{{\"schema\":\"{schema}\",\"checksum\":\"{checksum:016x}\",\"body\":")
}

/// FNV-1a, 64 bits.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
