use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the process to end: Ctrl-C, `kill`, and the terminal going away.
pub struct StopSignals([Signal; 3]);

impl StopSignals {
    /// From here on these signals do not kill the process any more.
    pub fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("signals cannot be listened to");
        let (interrupt, terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        Ok(Self([interrupt, terminate, listen(SignalKind::hangup())?]))
    }

    pub async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
