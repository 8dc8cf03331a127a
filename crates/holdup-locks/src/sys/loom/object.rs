//! The kernel's objects as the model checker sees them: tokens under one lock, whose waiters sleep until one comes
//! back.
//!
//! Their lock is loom's, so taking and giving order memory on both sides, as the system calls do. A model may also
//! forbid them (`model::OBJECTS`): then making one fails, as on a system that has none, and the locks fall back on
//! their stand-in.

use crate::sys::atomic::AtomicU32;
use crate::sys::{SysError, Taken};
use ::loom::sync::{Condvar, Mutex, MutexGuard};
use core::sync::atomic::Ordering;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    /// Nobody has it.
    There,
    Taken,
    /// Its object was given back to the system.
    Closed,
}

::loom::lazy_static! {
    static ref TOKENS: Mutex<Vec<Token>> = Mutex::new(Vec::new());
    static ref GIVEN: Condvar = Condvar::new();
}

fn tokens() -> MutexGuard<'static, Vec<Token>> {
    TOKENS.lock().expect("a model that panics is over")
}

fn new(call: &'static str) -> Result<u64, SysError> {
    if !crate::model::OBJECTS.load(Ordering::Relaxed) {
        return Err(SysError::new(call, 0));
    }
    let mut tokens = tokens();
    tokens.push(Token::There);
    Ok(tokens.len() as u64 - 1)
}

fn take(object: u64) {
    let mut tokens = tokens();
    while tokens[object as usize] != Token::There {
        assert!(tokens[object as usize] != Token::Closed, "a closed object is waited for");
        tokens = GIVEN.wait(tokens).expect("a model that panics is over");
    }
    tokens[object as usize] = Token::Taken;
}

fn try_take(object: u64) -> Taken {
    let mut tokens = tokens();
    if tokens[object as usize] != Token::There {
        return Taken::No;
    }
    tokens[object as usize] = Token::Taken;
    Taken::Yes
}

fn give(object: u64) {
    let mut tokens = tokens();
    assert!(tokens[object as usize] == Token::Taken, "only a token that was taken is given back");
    tokens[object as usize] = Token::There;
    GIVEN.notify_all();
}

fn free(object: u64) {
    let mut tokens = tokens();
    assert!(tokens[object as usize] == Token::There, "only a free object is closed, and once");
    tokens[object as usize] = Token::Closed;
}

/// How many objects were made and not closed, for models.
pub fn open() -> usize {
    tokens().iter().filter(|&&token| token != Token::Closed).count()
}

pub(crate) fn event_new(_semaphore: bool) -> Result<u64, SysError> {
    new("eventfd")
}
pub(crate) fn event_take(fd: u64) -> Result<(), SysError> {
    take(fd);
    Ok(())
}
pub(crate) fn event_try(fd: u64) -> Taken {
    try_take(fd)
}
pub(crate) fn event_give(fd: u64) -> Result<(), SysError> {
    give(fd);
    Ok(())
}
pub(crate) fn close(fd: u64) {
    free(fd);
}

pub(crate) fn pipe_new() -> Result<u64, SysError> {
    new("pipe2")
}
pub(crate) fn pipe_take(pipe: u64) -> Result<(), SysError> {
    event_take(pipe)
}
pub(crate) fn pipe_try(pipe: u64) -> Taken {
    try_take(pipe)
}
pub(crate) fn pipe_give(pipe: u64) -> Result<(), SysError> {
    event_give(pipe)
}
pub(crate) fn read_end(pipe: u64) -> u64 {
    pipe
}
pub(crate) fn pipe_free(pipe: u64) {
    free(pipe);
}

/// The deadline comes at the next step, or somebody gave the token back first: loom explores both.
pub(crate) fn await_readable(_fd: u64, _deadline: u64) -> Result<(), SysError> {
    ::loom::thread::yield_now();
    Ok(())
}
pub(crate) fn is_readable(fd: u64) -> bool {
    tokens()[fd as usize] == Token::There
}

pub(crate) fn sem_new() -> Result<u64, SysError> {
    new("semget")
}
pub(crate) fn sem_take(set: u64, deadline: Option<u64>) -> Result<Taken, SysError> {
    if deadline.is_some() {
        ::loom::thread::yield_now();
        return Ok(try_take(set));
    }
    take(set);
    Ok(Taken::Yes)
}
pub(crate) fn sem_try(set: u64) -> Taken {
    try_take(set)
}
pub(crate) fn sem_give(set: u64) -> Result<(), SysError> {
    event_give(set)
}
pub(crate) fn sem_held(set: u64) -> bool {
    !is_readable(set)
}
pub(crate) fn sem_free(set: u64) {
    free(set);
}
pub(crate) fn process_id() -> u32 {
    1
}

pub(crate) fn pi_take(word: &AtomicU32, deadline: Option<u64>) -> Result<Taken, SysError> {
    if deadline.is_some() {
        ::loom::thread::yield_now();
        return pi_try(word);
    }
    let mut tokens = tokens_if_allowed("futex(FUTEX_LOCK_PI)")?;
    while !pi_take_free(word) {
        tokens = GIVEN.wait(tokens).expect("a model that panics is over");
    }
    Ok(Taken::Yes)
}
pub(crate) fn pi_try(word: &AtomicU32) -> Result<Taken, SysError> {
    let _tokens = tokens_if_allowed("futex(FUTEX_TRYLOCK_PI)")?;
    Ok(if pi_take_free(word) { Taken::Yes } else { Taken::No })
}
pub(crate) fn pi_give(word: &AtomicU32) -> Result<(), SysError> {
    let _tokens = tokens_if_allowed("futex(FUTEX_UNLOCK_PI)")?;
    word.swap(0, Ordering::Relaxed);
    GIVEN.notify_all();
    Ok(())
}
pub(crate) fn is_missing(error: &SysError) -> bool {
    error.errno() == 0
}

fn tokens_if_allowed(call: &'static str) -> Result<MutexGuard<'static, Vec<Token>>, SysError> {
    if crate::model::OBJECTS.load(Ordering::Relaxed) { Ok(tokens()) } else { Err(SysError::new(call, 0)) }
}

/// Under the tokens' lock, which orders memory; the word itself lends nothing.
fn pi_take_free(word: &AtomicU32) -> bool {
    word.compare_exchange(0, crate::sys::thread_id(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
}
