//! The bootstrap token by which a new server's node joins: there before the server is ordered, gone once the node
//! has joined, and gone with the Machine.

use super::{Observed, Step};

/// What a look into the target cluster found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSeen {
    /// The Machine has none; one could have this id.
    None { free: String },
    /// The Machine has one.
    Own(OwnToken),
}

/// A Secret with a token that names the Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnToken {
    pub id: String,
    /// Which Secret it is, for its deletion.
    pub uid: String,
    /// A node could join with it now.
    pub valid: bool,
}

/// What comes before a server is ordered that shall join with a token; nothing once the token is there.
pub(super) fn before_order(seen: &Observed) -> Option<Step> {
    if !seen.token_wanted {
        return None;
    }
    match &seen.token {
        None => Some(Step::FindToken),
        Some(TokenSeen::None { free }) => Some(Step::MakeToken(free.clone())),
        Some(TokenSeen::Own(token)) if !token.valid => Some(Step::DropToken(token.clone())),
        Some(TokenSeen::Own(_)) => None,
    }
}

/// What comes when nobody needs the token any more; nothing once it is gone.
pub(super) fn no_more(seen: &Observed) -> Option<Step> {
    if !seen.has_target {
        return None;
    }
    match &seen.token {
        None => Some(Step::FindToken),
        Some(TokenSeen::None { .. }) => None,
        Some(TokenSeen::Own(token)) => Some(Step::DropToken(token.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::test_support::observed;

    #[test]
    fn a_token_is_there_before_the_order_and_gone_afterwards() {
        let free = || TokenSeen::None { free: "616263".into() };
        let own = |valid| OwnToken { id: "616263".into(), uid: "u".into(), valid };
        let make = Step::MakeToken("616263".into());
        let table = [
            // what was seen, before an order, afterwards
            (None, Some(Step::FindToken), Some(Step::FindToken)),
            (Some(free()), Some(make), None),
            (Some(TokenSeen::Own(own(true))), None, Some(Step::DropToken(own(true)))),
            (
                Some(TokenSeen::Own(own(false))),
                Some(Step::DropToken(own(false))),
                Some(Step::DropToken(own(false))),
            ),
        ];
        for (token, before, afterwards) in table {
            let seen = Observed { token_wanted: true, token, ..observed() };
            assert_eq!(before_order(&seen), before, "{:?}", seen.token);
            assert_eq!(no_more(&seen), afterwards, "{:?}", seen.token);
            let unwanted = Observed { token_wanted: false, ..seen.clone() };
            assert_eq!(before_order(&unwanted), None);
            assert_eq!(no_more(&Observed { has_target: false, ..seen }), None);
        }
    }
}
