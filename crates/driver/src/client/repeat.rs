//! When a call is sent once more by itself. Everything else is for whoever called to decide.

/// What a call is for: the same answer means another thing to a question than to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    Read,
    /// Something new, made of things that have to be there.
    Create,
    Change,
    Delete,
}

impl Purpose {
    pub const ALL: [Self; 4] = [Self::Read, Self::Create, Self::Change, Self::Delete];
}

/// How often a call is repeated at most.
const MOST_REPEATS: u32 = 2;

/// What came of sending a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answered(u16),
    /// No answer: it may or may not have been carried out.
    Lost,
}

/// What was done about this call already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    pub repeats: u32,
    pub renewed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The outcome is the caller's.
    Finish,
    /// Once more when it is this call's turn.
    Repeat,
    /// Once more with a new access token.
    Renew,
}

/// A refusal for the token or the rate changed nothing, so any call may follow it. After an outcome that
/// nobody knows only a question is asked again: a second order could make a second server.
pub fn next_step(purpose: Purpose, outcome: Outcome, tried: Tried, can_renew: bool) -> Step {
    let may_repeat = tried.repeats < MOST_REPEATS;
    match outcome {
        Outcome::Answered(401) if can_renew && !tried.renewed => Step::Renew,
        Outcome::Answered(429) if may_repeat => Step::Repeat,
        Outcome::Lost | Outcome::Answered(500 | 502..=504) if may_repeat && purpose == Purpose::Read => {
            Step::Repeat
        }
        _ => Step::Finish,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_questions_follow_an_unknown_outcome() {
        use Step::{Finish, Renew, Repeat};
        let table = [
            // outcome, then the step after a read and after anything else
            (Outcome::Answered(200), Finish, Finish),
            (Outcome::Answered(400), Finish, Finish),
            (Outcome::Answered(401), Renew, Renew),
            (Outcome::Answered(403), Finish, Finish),
            (Outcome::Answered(404), Finish, Finish),
            (Outcome::Answered(408), Finish, Finish),
            (Outcome::Answered(409), Finish, Finish),
            (Outcome::Answered(429), Repeat, Repeat),
            (Outcome::Answered(500), Repeat, Finish),
            (Outcome::Answered(501), Finish, Finish),
            (Outcome::Answered(502), Repeat, Finish),
            (Outcome::Answered(503), Repeat, Finish),
            (Outcome::Answered(504), Repeat, Finish),
            (Outcome::Lost, Repeat, Finish),
        ];
        for (outcome, read, other) in table {
            let fresh = Tried::default();
            assert_eq!(next_step(Purpose::Read, outcome, fresh, true), read, "{outcome:?}");
            for purpose in [Purpose::Create, Purpose::Change, Purpose::Delete] {
                assert_eq!(next_step(purpose, outcome, fresh, true), other, "{purpose:?} {outcome:?}");
            }
            let tired = Tried { repeats: MOST_REPEATS, renewed: true };
            assert_eq!(next_step(Purpose::Read, outcome, tired, true), Finish, "{outcome:?}");
        }
    }

    #[test]
    fn a_token_is_renewed_once_and_only_if_there_is_a_key_for_it() {
        let refused = Outcome::Answered(401);
        let renewed = Tried { repeats: 0, renewed: true };
        assert_eq!(next_step(Purpose::Create, refused, renewed, true), Step::Finish);
        assert_eq!(next_step(Purpose::Create, refused, Tried::default(), false), Step::Finish);
        let repeated = Tried { repeats: MOST_REPEATS, renewed: false };
        assert_eq!(next_step(Purpose::Create, refused, repeated, true), Step::Renew);
    }
}
