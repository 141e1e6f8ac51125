//! Just enough of an encoder to write Kubernetes objects as protobuf by hand.

/// A message under construction; fields are written in the order of the calls.
#[derive(Clone, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or_default());
    }

    pub(crate) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(crate) fn string(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub(crate) fn message(self, field: u64, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    pub(crate) fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// An entry of a map from strings to strings.
    pub(crate) fn entry(self, field: u64, key: &str, value: &str) -> Self {
        self.message(field, &Message::new().string(1, key).string(2, value))
    }

    /// The object in the envelope in which it travels.
    pub(crate) fn envelope(&self, api_version: &str, kind: &str) -> Vec<u8> {
        let type_meta = Message::new().string(1, api_version).string(2, kind);
        let unknown = Message::new().message(1, &type_meta).bytes(2, &self.0).string(3, "").string(4, "");
        [b"k8s\0".as_slice(), &unknown.0].concat()
    }
}
