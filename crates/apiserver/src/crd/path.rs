//! Where in an object we are. Kept as a chain on the stack; text is made only when something is wrong.

use std::fmt::Write as _;

/// One step down from a parent.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Field(&'a str),
    /// A key of a map: `[key]` in most messages, `.key` in those of the schema check.
    Key(&'a str),
    Index(usize),
}

#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    /// Everything lies below this field of another object.
    Under(&'a str),
    Below(&'a Path<'a>, Step<'a>),
}

impl<'a> Path<'a> {
    pub(super) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Below(self, Step::Field(name))
    }

    pub(super) fn key(&'a self, name: &'a str) -> Path<'a> {
        Path::Below(self, Step::Key(name))
    }

    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Below(self, Step::Index(index))
    }

    /// `spec.map[key].list[0]`; `<nil>` for the root.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        if out.is_empty() { "<nil>".to_owned() } else { out }
    }

    /// `spec.map.key.list[0]`, empty for the root: how the schema check names places.
    pub(super) fn dotted(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, false);
        out
    }

    fn write(&self, out: &mut String, keys_in_brackets: bool) {
        match self {
            Path::Root => {}
            Path::Under(field) => out.push_str(field),
            Path::Below(parent, step) => {
                parent.write(out, keys_in_brackets);
                match step {
                    Step::Index(index) => {
                        let _ = write!(out, "[{index}]");
                    }
                    Step::Key(name) if keys_in_brackets => {
                        out.push('[');
                        out.push_str(name);
                        out.push(']');
                    }
                    Step::Field(name) | Step::Key(name) => {
                        if !out.is_empty() {
                            out.push('.');
                        }
                        out.push_str(name);
                    }
                }
            }
        }
    }
}
