//! One question serves all who ask it at the same time.

use crate::Failure;
use hostler_base::Clock;
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{sync::Mutex, time::Instant};

/// For so many times as long as the last answer took the cloud is left alone, and no longer than this.
const REST: u32 = 4;
const LONGEST_REST: Duration = Duration::from_secs(5);

/// How often a question may be put, however many are asking.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// So many times within the window: whoever asks alone never waits for his turn.
    pub times: usize,
    pub window: Duration,
}

/// A thousand at once share two answers per second.
impl Default for Pace {
    fn default() -> Self {
        Self { times: 4, window: Duration::from_secs(2) }
    }
}

/// A question whose answers are shared. An answer is good only for those who asked before the question was put.
pub struct Shared<T> {
    clock: Clock,
    /// How often the question was put.
    put: AtomicU64,
    /// How many are asking.
    asking: AtomicUsize,
    past: Mutex<Past<T>>,
}

/// Counts one who asks, until the end or until it gives up.
struct Asking<'a>(&'a AtomicUsize);

impl<'a> Asking<'a> {
    fn begin(all: &'a AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(all)
    }

    fn is_alone(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 1
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The last answers.
struct Past<T> {
    pace: Pace,
    /// Which one it is and what it says. Who waited for it shares its failure, too.
    answer: Option<(u64, Result<T, Failure>)>,
    /// When the question was last put.
    put_at: VecDeque<Instant>,
    rest_until: Option<Instant>,
}

impl<T> Past<T> {
    /// How long the question has to wait.
    fn wait(&self, now: Instant) -> Duration {
        let oldest = self.put_at.front().filter(|_| self.put_at.len() >= self.pace.times);
        let turn = oldest.map(|put| *put + self.pace.window).max(self.rest_until);
        turn.map_or(Duration::ZERO, |turn| turn.saturating_duration_since(now))
    }

    fn put(&mut self, now: Instant) {
        if self.put_at.len() >= self.pace.times {
            self.put_at.pop_front();
        }
        self.put_at.push_back(now);
    }
}

impl<T: Clone> Shared<T> {
    pub fn new(clock: Clock, pace: Pace) -> Self {
        let past = Past { pace, answer: None, put_at: VecDeque::new(), rest_until: None };
        Self { clock, put: AtomicU64::new(0), asking: AtomicUsize::new(0), past: Mutex::new(past) }
    }

    /// The answer to a question put after this call. Who comes while one is under way waits for the next one, which
    /// all who wait by then share. Who gives up waiting holds up nobody.
    pub async fn ask<F>(&self, question: impl FnOnce() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let asking = Asking::begin(&self.asking);
        let put = self.put.load(Ordering::SeqCst);
        let mut past = self.past.lock().await;
        if let Some((number, answer)) = past.answer.take_if(|(number, _)| *number > put) {
            if !asking.is_alone() {
                past.answer = Some((number, answer.clone()));
            }
            return answer;
        }
        let wait = past.wait(self.clock.instant());
        if !wait.is_zero() {
            self.clock.sleep(wait).await;
        }
        let put_at = self.clock.instant();
        let number = self.put.fetch_add(1, Ordering::SeqCst) + 1;
        past.put(put_at);
        // Answers may be large: whoever still waits waits for the new one.
        past.answer = None;
        let answer = question().await;
        let answered_at = self.clock.instant();
        let rest = answered_at.saturating_duration_since(put_at).saturating_mul(REST);
        past.rest_until = Some(answered_at + rest.min(LONGEST_REST));
        if !asking.is_alone() {
            past.answer = Some((number, answer.clone()));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use futures::future::join_all;
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);

    /// Counts its own questions; each takes a tenth of a second.
    #[derive(Clone)]
    struct Cloud {
        shared: Arc<Shared<u64>>,
        asked: Arc<AtomicU64>,
        fails: bool,
    }

    impl Cloud {
        fn new(fails: bool) -> Self {
            Self {
                shared: Arc::new(Shared::new(Clock::system(), Pace::default())),
                asked: Arc::default(),
                fails,
            }
        }

        async fn ask(&self) -> Result<u64, Failure> {
            self.shared
                .ask(async || {
                    let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
                    tokio::time::sleep(SECOND / 10).await;
                    if self.fails { Err(Failure::new(Code::Unavailable, "no")) } else { Ok(number) }
                })
                .await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_ask_before_a_question_is_put_share_its_answer_or_its_failure() {
        for fails in [false, true] {
            let cloud = Cloud::new(fails);
            let first = tokio::spawn({
                let cloud = cloud.clone();
                async move { cloud.ask().await }
            });
            tokio::time::sleep(SECOND / 20).await;
            // The first question is under way: its answer may be older than these.
            let answers = join_all((0..1_000).map(|_| cloud.ask())).await;
            assert_eq!(cloud.asked.load(Ordering::SeqCst), 2);
            assert_eq!(first.await.unwrap().ok(), (!fails).then_some(1));
            assert!(answers.into_iter().all(|answer| answer.ok() == (!fails).then_some(2)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_waiting_holds_up_nobody() {
        let cloud = Cloud::new(false);
        assert!(tokio::time::timeout(SECOND / 20, cloud.ask()).await.is_err());
        assert_eq!(cloud.ask().await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_that_never_ends_is_answered_twice_a_second() {
        let cloud = Cloud::new(false);
        let start = Instant::now();
        while start.elapsed() < 100 * SECOND {
            cloud.ask().await.unwrap();
        }
        let asked = cloud.asked.load(Ordering::SeqCst);
        assert!((195..=205).contains(&asked), "{asked}");
    }

    #[test]
    fn a_few_questions_may_follow_each_other_and_many_are_spread() {
        let start = Instant::now();
        let pace = Pace::default();
        let mut past: Past<()> = Past { pace, answer: None, put_at: VecDeque::new(), rest_until: None };
        for number in 0..pace.times {
            assert_eq!(past.wait(start), Duration::ZERO, "{number}");
            past.put(start);
        }
        assert_eq!(past.wait(start), pace.window);
        assert_eq!(past.wait(start + SECOND) + SECOND, pace.window);
        past.put(start + pace.window);
        assert_eq!(past.wait(start + pace.window), Duration::ZERO);
        past.rest_until = Some(start + pace.window + 2 * SECOND);
        assert_eq!(past.wait(start + pace.window), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_those_who_wait_and_no_longer() {
        let shared = Shared::new(Clock::system(), Pace::default());
        let (asked, began) = (&AtomicU64::new(0), &std::sync::Mutex::new(Vec::new()));
        let ask = || {
            shared.ask(async move || {
                asked.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(SECOND).await;
                let answer = Arc::new(());
                began.lock().unwrap().push(Arc::downgrade(&answer));
                Ok(answer)
            })
        };
        let (first, second, third) = tokio::join!(ask(), ask(), async {
            tokio::time::sleep(SECOND / 2).await;
            ask().await
        });
        let (first, second, third) = (first.unwrap(), second.unwrap(), third.unwrap());
        assert!(Arc::ptr_eq(&second, &third) && !Arc::ptr_eq(&first, &third));
        assert_eq!(asked.load(Ordering::SeqCst), 2, "two came too late for the first answer");
        drop((first, second, third));
        assert!(began.lock().unwrap().iter().all(|answer| answer.strong_count() == 0));
    }
}
