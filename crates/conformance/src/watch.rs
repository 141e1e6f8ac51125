use crate::{Failure, Look, Outcome};
use bytes::BytesMut;
use http_body_util::BodyExt;
use serde_json::Value;
use std::time::Duration;

/// An open watch, read event by event.
pub struct Watch {
    path: String,
    body: kube::client::Body,
    read: BytesMut,
    patience: Duration,
}

impl Watch {
    pub(crate) fn new(path: String, body: kube::client::Body, patience: Duration) -> Self {
        Self { path, body, read: BytesMut::new(), patience }
    }

    /// The next event, `None` when the server ended the watch.
    pub async fn next_or_end(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end + 1);
                return match serde_json::from_slice(&line) {
                    Ok(event) => Ok(Some(event)),
                    Err(error) => Err(self.failed(&format!("sent a line that is no JSON ({error})"))),
                };
            }
            match tokio::time::timeout(self.patience, self.body.frame()).await {
                Err(_) => return Err(self.failed("sent nothing for too long")),
                Ok(None | Some(Err(_))) => return Ok(None),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    /// The next event.
    pub async fn next(&mut self) -> Result<Value, Failure> {
        self.next_or_end().await?.ok_or_else(|| self.failed("ended"))
    }

    /// The next event must be of this type and about this name; returns its object.
    pub async fn expect(&mut self, event_type: &str, name: &str) -> Result<Value, Failure> {
        let mut event = self.next().await?;
        while self.is_aside(&event) {
            event = self.next().await?;
        }
        event.is("/type", event_type)?;
        event.is("/object/metadata/name", name)?;
        Ok(event.at("/object").clone())
    }

    /// The next event must be an error with this code and reason.
    pub async fn expect_error(&mut self, code: i64, reason: &str) -> Result<Value, Failure> {
        let event = self.next().await?;
        event.is("/type", "ERROR")?;
        event.is("/object/kind", "Status")?;
        event.is("/object/code", code)?;
        event.is("/object/reason", reason)?;
        Ok(event.at("/object").clone())
    }

    /// The server must end the watch without another event other than bookmarks.
    pub async fn expect_end(&mut self) -> Outcome {
        while let Some(event) = self.next_or_end().await? {
            if event["type"] != "BOOKMARK" {
                return Err(self.failed(&format!("should have ended, but sent {event}")));
            }
        }
        Ok(())
    }

    /// Who allows bookmarks may get one at any time, besides the one that ends what is there at first.
    fn is_aside(&self, event: &Value) -> bool {
        let allowed = self.path.contains("allowWatchBookmarks=true");
        allowed && event["type"] == "BOOKMARK" && event["object"]["metadata"]["annotations"].is_null()
    }

    fn failed(&self, what: &str) -> Failure {
        Failure(format!("the watch {} {what}", self.path))
    }
}
