use crate::{base::Prefix, limit::Urgency};
use bytes::Bytes;
use hostler_driver::{
    Code, Failure,
    client::{OperationName, Purpose, escape},
};
use http::Method;
use serde::Serialize;

/// What is sent along.
pub(crate) enum Content {
    Nothing,
    Json(Bytes),
    Form(Bytes),
}

/// A request that is not sent yet.
pub(crate) struct Call {
    pub(crate) operation: OperationName,
    pub(crate) purpose: Purpose,
    pub(crate) method: Method,
    pub(crate) prefix: Prefix,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) content: Content,
    pub(crate) urgency: Urgency,
}

impl Call {
    pub(crate) fn new(
        operation: OperationName,
        purpose: Purpose,
        method: Method,
        prefix: Prefix,
        path: impl Into<String>,
    ) -> Self {
        let urgency = match purpose {
            Purpose::Create | Purpose::Delete => Urgency::High,
            Purpose::Read | Purpose::Change => Urgency::Usual,
        };
        let (path, content) = (path.into(), Content::Nothing);
        Self { operation, purpose, method, prefix, path, content, urgency }
    }

    fn main(operation: &'static str, purpose: Purpose, method: Method, path: String) -> Self {
        Self::new(OperationName(operation), purpose, method, Prefix::Main, path)
    }

    pub(crate) fn get(operation: &'static str, path: String) -> Self {
        Self::main(operation, Purpose::Read, Method::GET, path)
    }

    /// A question that is put as an order is.
    pub(crate) fn ask(operation: &'static str, path: String) -> Self {
        Self::main(operation, Purpose::Read, Method::POST, path)
    }

    /// Makes something new.
    pub(crate) fn create(operation: &'static str, path: String) -> Self {
        Self::main(operation, Purpose::Create, Method::POST, path)
    }

    /// Does something to what is there.
    pub(crate) fn change(operation: &'static str, path: String) -> Self {
        Self::main(operation, Purpose::Change, Method::POST, path)
    }

    pub(crate) fn delete(operation: &'static str, path: String) -> Self {
        Self::main(operation, Purpose::Delete, Method::DELETE, path)
    }

    pub(crate) fn under(self, prefix: Prefix) -> Self {
        Self { prefix, ..self }
    }

    pub(crate) fn urgent(self) -> Self {
        Self { urgency: Urgency::High, ..self }
    }

    pub(crate) fn query(mut self, key: &str, value: &str) -> Self {
        self.path.push(if self.path.contains('?') { '&' } else { '?' });
        self.path.push_str(key);
        self.path.push('=');
        self.path.push_str(&escape(value));
        self
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self, Failure> {
        let written = serde_json::to_vec(body).map_err(|error| {
            let message = format!("cannot write the body of {}: {error}", self.operation.0);
            Failure::new(Code::Internal, message)
        })?;
        self.content = Content::Json(written.into());
        Ok(self)
    }

    pub(crate) fn form(self, form: String) -> Self {
        Self { content: Content::Form(form.into()), ..self }
    }

    pub(crate) fn fields(self, fields: &[(&str, &str)]) -> Self {
        let written: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        self.form(written.join("&"))
    }
}

/// A path of these parts. An empty one would turn the call for one thing into one for all of them, a dot into one for
/// something else: neither is sent.
pub(crate) fn path(parts: &[&str]) -> Result<String, Failure> {
    let mut path = String::new();
    for part in parts {
        if matches!(*part, "" | "." | "..") {
            let shown = path.rsplit('/').next().unwrap_or_default();
            return Err(Failure::new(
                Code::InvalidArgument,
                format!("{part:?} cannot be an id in VPSie's {shown}: correct it where it is written"),
            ));
        }
        path.push('/');
        path.push_str(&escape(part));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_into_a_path_cannot_leave_it() {
        assert_eq!(path(&["vm", "a/b"]).unwrap(), "/vm/a%2Fb");
        for id in ["", ".", ".."] {
            let failure = path(&["vm", id]).unwrap_err();
            assert!(failure.code == Code::InvalidArgument && failure.message.contains("vm"), "{failure}");
        }
    }

    #[test]
    fn fields_and_queries_are_escaped() {
        let call = Call::get("x", "/vm".into()).query("a", "b&c").query("d", "e");
        assert_eq!(call.path, "/vm?a=b%26c&d=e");
        let Content::Form(form) = call.fields(&[("a", "b c"), ("d", "=")]).content else { panic!() };
        assert_eq!(form, "a=b%20c&d=%3D");
    }

    #[test]
    fn only_what_creates_or_deletes_is_urgent() {
        let urgency = |call: Call| call.urgency;
        assert_eq!(urgency(Call::create("x", "/".into())), Urgency::High);
        assert_eq!(urgency(Call::delete("x", "/".into())), Urgency::High);
        assert_eq!(urgency(Call::get("x", "/".into())), Urgency::Usual);
        assert_eq!(urgency(Call::change("x", "/".into())), Urgency::Usual);
        assert_eq!(urgency(Call::ask("x", "/".into()).urgent()), Urgency::High);
    }
}
