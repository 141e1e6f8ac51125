//! What is known about the fields of the built-in kinds, and what follows from it: reading JSON and protobuf as
//! Go would, strategic merge patch, field ownership, and OpenAPI documents. Everything is driven by one table.

mod compare;
mod decode;
mod field_set;
mod go_value;
pub mod managed_fields;
mod new_fields;
mod openapi;
mod protobuf;
pub mod quantity;
mod strategic;
mod table;
mod time;

pub use decode::{Decoded, decode, decode_merged, fill_zero_values};
pub use go_value::go_value;
pub use openapi::{document_hash, openapi_v3};
pub use protobuf::from_protobuf;
pub use strategic::strategic_merge;
pub use table::{TypeRef, kind, object_meta};
