use std::{future::pending, sync::Arc};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Stalled,
    Closed,
}

/// Stands before every call of one incarnation. Once closed it never opens again: whatever task of the dead
/// process is still there, its calls reach nobody.
#[derive(Clone, Debug)]
pub struct Fence(Arc<watch::Sender<State>>);

impl Default for Fence {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(State::Open)))
    }
}

impl Fence {
    pub fn close(&self) {
        self.0.send_replace(State::Closed);
    }

    pub fn stall(&self) {
        self.0.send_if_modified(|state| change(state, State::Open, State::Stalled));
    }

    pub fn resume(&self) {
        self.0.send_if_modified(|state| change(state, State::Stalled, State::Open));
    }

    pub fn is_closed(&self) -> bool {
        *self.0.borrow() == State::Closed
    }

    pub fn is_stalled(&self) -> bool {
        *self.0.borrow() == State::Stalled
    }

    /// Returns when a call may pass: at once while open, after the stall, never when closed.
    pub async fn pass(&self) {
        self.reach(State::Open).await;
    }

    pub async fn closed(&self) {
        self.reach(State::Closed).await;
    }

    pub async fn stalled(&self) {
        self.reach(State::Stalled).await;
    }

    async fn reach(&self, wanted: State) {
        let mut states = self.0.subscribe();
        let reached = states.wait_for(|state| *state == wanted).await.is_ok();
        if !reached {
            pending::<()>().await;
        }
    }
}

fn change(state: &mut State, from: State, to: State) -> bool {
    let changes = *state == from;
    if changes {
        *state = to;
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_closed_fence_stays_closed() {
        let fence = Fence::default();
        assert!(fence.pass().now_or_never().is_some());
        fence.stall();
        assert!(fence.pass().now_or_never().is_none());
        fence.resume();
        assert!(fence.pass().now_or_never().is_some());
        fence.close();
        fence.resume();
        fence.stall();
        assert!(fence.pass().now_or_never().is_none() && fence.is_closed());
        assert!(fence.closed().now_or_never().is_some());
    }
}
