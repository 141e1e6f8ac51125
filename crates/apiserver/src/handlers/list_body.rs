//! A list as a body that is put together while it is sent: its length is known from the start, and there is never
//! more than a part of it in memory besides the stored objects.

use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// Parts are about this long; an object that is longer is a part of its own.
const PART: usize = 64 * 1024;
const END: &[u8] = b"]}";

/// An object in a list, from behind the `{` it begins with.
pub(super) struct Item(Bytes);

impl Item {
    /// Takes `own_type` off: items of built-in lists do not repeat what the list says of all of them.
    pub(super) fn new(object: &Bytes, own_type: Option<&[u8]>) -> Self {
        let skipped = own_type.filter(|own_type| object.starts_with(own_type)).map_or(1, <[u8]>::len);
        Self(object.slice(skipped.min(object.len())..))
    }

    /// With the comma or bracket before it and its own brace.
    fn length(&self) -> usize {
        self.0.len() + 2
    }
}

pub(super) struct ListBody {
    head: Bytes,
    items: std::iter::Peekable<std::vec::IntoIter<Item>>,
    /// What comes before the next item.
    separator: u8,
    left: usize,
}

impl ListBody {
    /// `head` is all that stands before the bracket that begins the items.
    pub(super) fn new(head: Bytes, items: Vec<Item>) -> Self {
        let bracket_of_empty = usize::from(items.is_empty());
        let left = head.len() + bracket_of_empty + items.iter().map(Item::length).sum::<usize>() + END.len();
        Self { head, items: items.into_iter().peekable(), separator: b'[', left }
    }

    fn next_part(&mut self) -> Bytes {
        let mut part = BytesMut::with_capacity(self.left.min(PART));
        part.put_slice(&std::mem::take(&mut self.head));
        while let Some(item) =
            self.items.next_if(|item| part.is_empty() || part.len() + item.length() + END.len() <= PART)
        {
            part.put_u8(self.separator);
            part.put_u8(b'{');
            part.put_slice(&item.0);
            self.separator = b',';
        }
        if self.items.peek().is_none() {
            if self.separator == b'[' {
                part.put_u8(b'[');
            }
            part.put_slice(END);
        }
        self.left = self.left.saturating_sub(part.len());
        part.freeze()
    }
}

impl Body for ListBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        Poll::Ready((body.left > 0).then(|| Ok(Frame::data(body.next_part()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.left).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use http_body_util::BodyExt;

    /// The parts of a list of these objects.
    fn parts(objects: &[Bytes], own_type: Option<&[u8]>) -> Vec<Bytes> {
        let items = objects.iter().map(|object| Item::new(object, own_type)).collect();
        let mut body = ListBody::new(Bytes::from_static(b"{\"items\":"), items);
        let promised = body.size_hint().exact().unwrap();
        let mut parts = Vec::new();
        while let Some(frame) = body.frame().now_or_never().unwrap() {
            parts.push(frame.unwrap().into_data().unwrap());
        }
        let length: usize = parts.iter().map(Bytes::len).sum();
        assert_eq!((promised, true), (length as u64, body.is_end_stream()));
        parts
    }

    #[test]
    fn short_lists_are_one_part() {
        let own = b"{\"kind\":\"K\",";
        let objects = [r#"{"kind":"K","a":1}"#, r#"{"kind":"L"}"#, "{}"].map(Bytes::from);
        assert_eq!(parts(&[], None), ["{\"items\":[]}"]);
        assert_eq!(parts(&objects, Some(own)), [r#"{"items":[{"a":1},{"kind":"L"},{}]}"#]);
        assert_eq!(parts(&objects[..1], None), [r#"{"items":[{"kind":"K","a":1}]}"#]);
    }

    #[test]
    fn long_lists_come_in_parts_of_bounded_size() {
        for length in [10, 1000, PART - 100, PART, 3 * PART] {
            let object = Bytes::from(format!("{{\"a\":\"{}\"}}", "x".repeat(length)));
            let count = 4 * PART / length + 2;
            let parts = parts(&vec![object.clone(); count], None);
            assert!(parts.iter().all(|part| part.len() <= PART.max(object.len() + 4)));
            let whole: serde_json::Value = serde_json::from_slice(&parts.concat()).unwrap();
            assert_eq!(whole["items"].as_array().map(Vec::len), Some(count));
        }
    }
}
