use super::{OWN_HEADER, Origin, Pass, bearer, header_value};
use hostler_driver::Failure;
use secrecy::{ExposeSecret, SecretString};
use std::sync::{Mutex, PoisonError};

/// In which header a key goes: most programs use VPSie's own, one the usual one, for the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Own,
    Bearer,
}

/// A key that lasts.
pub(crate) struct Key {
    key: SecretString,
    /// The form that is used, and whether it has ever worked.
    form: Mutex<(Form, bool)>,
}

impl Key {
    pub(super) fn new(key: SecretString) -> Self {
        Self { key, form: Mutex::new((Form::Own, false)) }
    }

    fn with<T>(&self, change: impl FnOnce(&mut (Form, bool)) -> T) -> T {
        change(&mut self.form.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn pass(&self) -> Result<Pass, Failure> {
        let (form, proven) = self.with(|form| *form);
        let origin = Origin::Key { form, proven };
        match form {
            Form::Own => {
                let value = header_value(self.key.expose_secret())?;
                Ok(Pass { header: OWN_HEADER, value, origin })
            }
            Form::Bearer => bearer(&self.key, origin),
        }
    }

    /// A key that has never worked in one form may work in the other one. A form that has worked is kept: then it is the
    /// key that is refused.
    pub(super) fn refused(&self, refused: Form, proven: bool) -> bool {
        self.with(|form| match (*form, refused) {
            _ if proven => false,
            // Somebody else has found out meanwhile.
            ((now, true), _) => now != refused,
            (_, Form::Own) => {
                *form = (Form::Bearer, false);
                true
            }
            (_, Form::Bearer) => {
                *form = (Form::Own, false);
                false
            }
        })
    }

    pub(super) fn accepted(&self, worked: Form) {
        self.with(|form| *form = (worked, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(key: &Key) -> (Form, bool) {
        key.with(|form| *form)
    }

    #[test]
    fn the_other_form_is_tried_once_and_what_worked_is_kept() {
        let key = Key::new("k".to_owned().into());
        assert!(key.refused(Form::Own, false), "the other form is tried");
        assert_eq!(key.pass().unwrap().header, http::header::AUTHORIZATION);
        assert!(!key.refused(Form::Bearer, false), "both were refused");
        assert_eq!(form(&key), (Form::Own, false));
        assert!(key.refused(Form::Own, false), "the next call tries again");
        key.accepted(Form::Bearer);
        assert_eq!(form(&key), (Form::Bearer, true));
        assert!(!key.refused(Form::Bearer, true), "now it is the key");
        assert!(key.refused(Form::Own, false), "one that was sent before");
        assert_eq!(form(&key), (Form::Bearer, true));
    }

    #[test]
    fn a_key_that_worked_in_its_own_header_is_not_sent_in_another_one() {
        let key = Key::new("k".to_owned().into());
        key.accepted(Form::Own);
        assert!(!key.refused(Form::Own, true));
        let pass = key.pass().unwrap();
        assert_eq!(pass.header, OWN_HEADER);
        assert!(!format!("{:?}", pass.value).contains('k'));
    }
}
