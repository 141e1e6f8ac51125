//! The cases, one module per area or group of areas.

/// Lists the cases of a module in the order in which they run: `area!("get": first, second; "list": third);`
macro_rules! area {
    ($($area:literal: $($name:ident),+ $(,)?);+ $(;)?) => {
        pub(crate) fn cases() -> Vec<crate::Case> {
            vec![$($(crate::Case { area: $area, name: stringify!($name), run: |ctx| Box::pin($name(ctx)) }),+),+]
        }
    };
}

mod create;
mod delete;
mod fixtures;
mod history;
mod patch;
mod read;
mod selectors;
mod update;
mod watch;

pub(crate) fn all() -> Vec<crate::Case> {
    [
        create::cases(),
        read::cases(),
        update::cases(),
        patch::cases(),
        delete::cases(),
        selectors::cases(),
        watch::cases(),
        history::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
