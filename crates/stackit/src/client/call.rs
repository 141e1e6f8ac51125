use bytes::Bytes;
use hostler_driver::{
    Code, Failure,
    client::{OperationName, Purpose, escape},
};
use http::Method;
use serde::Serialize;

/// Gets an access token; it is no operation of the IaaS API. The names of all others are the vendor's library's.
pub(crate) const TOKEN: OperationName = OperationName("CreateToken");

/// A request that is not sent yet.
pub(crate) struct Call {
    pub(crate) operation: OperationName,
    pub(crate) purpose: Purpose,
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) body: Bytes,
}

impl Call {
    fn new(operation: &'static str, purpose: Purpose, method: Method, path: String) -> Self {
        Self { operation: OperationName(operation), purpose, method, target: path, body: Bytes::new() }
    }

    pub(crate) fn get(operation: &'static str, path: String) -> Self {
        Self::new(operation, Purpose::Read, Method::GET, path)
    }

    /// Makes something new.
    pub(crate) fn create(operation: &'static str, path: String) -> Self {
        Self::new(operation, Purpose::Create, Method::POST, path)
    }

    /// Does something to what is there.
    pub(crate) fn post(operation: &'static str, path: String) -> Self {
        Self::new(operation, Purpose::Change, Method::POST, path)
    }

    pub(crate) fn put(operation: &'static str, path: String) -> Self {
        Self::new(operation, Purpose::Change, Method::PUT, path)
    }

    pub(crate) fn patch(operation: &'static str, path: String) -> Self {
        Self::new(operation, Purpose::Change, Method::PATCH, path)
    }

    pub(crate) fn delete(operation: &'static str, path: String) -> Self {
        Self::new(operation, Purpose::Delete, Method::DELETE, path)
    }

    pub(crate) fn query(mut self, key: &str, value: &str) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(key);
        self.target.push('=');
        self.target.push_str(&escape(value));
        self
    }

    pub(crate) fn selected_by(self, selector: Option<&str>) -> Self {
        match selector {
            Some(selector) => self.query("label_selector", selector),
            None => self,
        }
    }

    pub(crate) fn body(mut self, body: &impl Serialize) -> Result<Self, Failure> {
        let written = serde_json::to_vec(body).map_err(|error| {
            Failure::new(Code::Internal, format!("cannot write the body of {}: {error}", self.operation.0))
        })?;
        self.body = written.into();
        Ok(self)
    }
}
