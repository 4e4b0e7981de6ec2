//! The calls into PCRE2: the only unsafe code for patterns.
//!
//! Types here own what the library allocates and free it once. A compiled pattern does not change any more,
//! so threads may share it. The other memory of a match belongs to the thread that matches.

#![expect(unsafe_code, reason = "PCRE2 is a C library")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use pcre2_sys as c;

use crate::error::CompileError;

/// The number of groups, including the whole match, that the kept match data has room for.
const KEPT_GROUPS: u32 = 32;
/// Match data that grew beyond this many bytes in one match is freed after it.
const KEPT_BYTES: usize = 256 << 10;

/// The way in which a pattern is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// With a call back before every item of the pattern.
    Always,
    /// Without call backs: the matcher is called for a few starts at a time instead.
    BetweenStarts,
}

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Code {
    raw: NonNull<c::pcre2_code_8>,
}

// SAFETY: PCRE2 does not change a compiled pattern while it matches, and documents that threads may share
// one. It is changed only by compilation to machine code, which is never asked for, and freed only when it is
// dropped.
unsafe impl Send for Code {}
// SAFETY: as for `Send`.
unsafe impl Sync for Code {}

/// The arguments of one call of the matcher.
pub(crate) struct Request<'r> {
    pub(crate) text: &'r str,
    /// The first byte at which a match may start; between two characters.
    pub(crate) start: usize,
    /// The last byte at which a match may start, where the pattern was compiled to be watched between starts.
    pub(crate) last_start: usize,
    /// The limit of the matcher's steps, forwards and back, within one start.
    pub(crate) steps_max: u32,
    /// The limit of the matcher's memory.
    pub(crate) kib_max: u32,
}

/// The reason why one call of the matcher found nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    NoMatch,
    StepsExceeded,
    MemoryExceeded,
    /// The call back asked to stop.
    Stopped,
    Failed(String),
}

/// Called before every item of a watched pattern with the matcher's position in the text. `true` stops the
/// search.
pub(crate) type Watch<'w> = &'w mut dyn FnMut(usize) -> bool;

impl Code {
    /// Compiles a pattern with PCRE2's options of the caller and those that keep a match within bounds.
    pub(crate) fn compile(pattern: &str, options: u32, watched: Watched) -> Result<Self, CompileError> {
        // `\C` would let a match end within a character.
        let safe = c::PCRE2_UTF | c::PCRE2_NEVER_BACKSLASH_C;
        let watching = match watched {
            Watched::Always => c::PCRE2_AUTO_CALLOUT,
            // A repetition gives back step by step, so that the limit of steps counts it.
            Watched::BetweenStarts => c::PCRE2_USE_OFFSET_LIMIT | c::PCRE2_NO_AUTO_POSSESS,
        };
        let (mut error, mut offset) = (0, 0);
        // SAFETY: the pattern is `pattern.len()` readable bytes of UTF-8, and both results outlive the call.
        let raw = unsafe {
            c::pcre2_compile_8(
                pattern.as_ptr(),
                pattern.len(),
                options | safe | watching,
                &raw mut error,
                &raw mut offset,
                ptr::null_mut(),
            )
        };
        NonNull::new(raw).map(|raw| Self { raw }).ok_or_else(|| Self::refusal(error, offset))
    }

    /// The error with one of PCRE2's numbers.
    pub(crate) fn refusal(number: c_int, offset: usize) -> CompileError {
        CompileError { number, reason: words(number), offset: Some(offset) }
    }

    /// The size of the compiled pattern in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let mut bytes: usize = 0;
        // SAFETY: this question is answered by one `size_t`.
        unsafe { self.ask(c::PCRE2_INFO_SIZE, (&raw mut bytes).cast()) };
        bytes
    }

    /// The number of the pattern's groups.
    pub(crate) fn groups(&self) -> u32 {
        let mut groups: u32 = 0;
        // SAFETY: this question is answered by one `uint32_t`.
        unsafe { self.ask(c::PCRE2_INFO_CAPTURECOUNT, (&raw mut groups).cast()) };
        groups
    }

    /// The highest group that the pattern refers back to. 0 if there is no back reference.
    pub(crate) fn highest_reference(&self) -> u32 {
        let mut highest: u32 = 0;
        // SAFETY: this question is answered by one `uint32_t`.
        unsafe { self.ask(c::PCRE2_INFO_BACKREFMAX, (&raw mut highest).cast()) };
        highest
    }

    /// # Safety
    /// `answer` must point to the type that PCRE2 documents for the question.
    unsafe fn ask(&self, question: u32, answer: *mut c_void) {
        // SAFETY: the pattern is alive, and the caller answers for `answer`.
        let failure = unsafe { c::pcre2_pattern_info_8(self.raw.as_ptr(), question, answer) };
        assert!(failure == 0, "PCRE2 does not know the question {question}");
    }

    /// Searches. If there is a match, passes the positions of the whole match and of its groups to `read`.
    pub(crate) fn search<R>(
        &self,
        request: &Request<'_>,
        watch: Watch<'_>,
        read: impl FnOnce(&[usize]) -> R,
    ) -> Result<R, Answer> {
        let Request { text, start, .. } = *request;
        // The matcher trusts that the text is UTF-8 and starts between characters.
        assert!(text.is_char_boundary(start), "a search starts within a character or beyond the text");
        let scratch = Scratch::take(self.groups() + 1);
        scratch.limit(request);
        let mut watch = watch;
        // SAFETY: the pattern and the scratch are alive and of this thread. The text is UTF-8 of `text.len()`
        // readable bytes, which a non-empty pointer represents even where it is empty, and `start` lies
        // between its characters. The call back gets a pointer to `watch`, which outlives the search.
        let outcome = unsafe {
            set_callout(scratch.context.as_ptr(), Some(call_back), (&raw mut watch).cast());
            let bytes = if text.is_empty() { c"".as_ptr().cast() } else { text.as_ptr() };
            c::pcre2_match_8(
                self.raw.as_ptr(),
                bytes,
                text.len(),
                start,
                c::PCRE2_NO_UTF_CHECK,
                scratch.data.as_ptr(),
                scratch.context.as_ptr(),
            )
        };
        let answer = if outcome > 0 { Ok(read(scratch.positions())) } else { Err(answer(outcome)) };
        scratch.keep();
        answer
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: nothing else frees it, and no match is going on with it.
        unsafe { c::pcre2_code_free_8(self.raw.as_ptr()) }
    }
}

/// The memory of a match besides the pattern. One is kept for each thread.
struct Scratch {
    data: NonNull<c::pcre2_match_data_8>,
    context: NonNull<c::pcre2_match_context_8>,
    /// The largest size that the match data has allocated at once, in bytes. The library tells it by a function that older
    /// versions lack, and a program that is linked with one of them has to start before it can say so.
    largest: Rc<Cell<usize>>,
}

thread_local! {
    static KEPT: Cell<Option<Scratch>> = const { Cell::new(None) };
}

impl Scratch {
    /// The thread's kept one, if it has room for `groups` groups, or a new one.
    fn take(groups: u32) -> Self {
        let kept = if groups <= KEPT_GROUPS { KEPT.try_with(Cell::take).ok().flatten() } else { None };
        kept.unwrap_or_else(|| Self::new(groups.max(KEPT_GROUPS)))
    }

    fn new(groups: u32) -> Self {
        let largest = Rc::new(Cell::new(0));
        // SAFETY: `largest` lives at its place as long as the match data, which is the only one to allocate by these
        // functions, and copies them. The context of the match allocates by the C library's own. All three are checked.
        let (data, context) = unsafe {
            let counted = Rc::as_ptr(&largest).cast_mut().cast();
            let allocation = c::pcre2_general_context_create_8(Some(allocate), Some(release), counted);
            let data = c::pcre2_match_data_create_8(groups, allocation);
            c::pcre2_general_context_free_8(allocation);
            (data, c::pcre2_match_context_create_8(ptr::null_mut()))
        };
        let (Some(data), Some(context)) = (NonNull::new(data), NonNull::new(context)) else {
            // As any other allocation that fails.
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<Self>());
        };
        Self { data, context, largest }
    }

    fn limit(&self, request: &Request<'_>) {
        let context = self.context.as_ptr();
        // SAFETY: the context is alive and of this thread; the calls set numbers in it.
        unsafe {
            c::pcre2_set_match_limit_8(context, request.steps_max);
            c::pcre2_set_depth_limit_8(context, request.steps_max);
            c::pcre2_set_heap_limit_8(context, request.kib_max);
            c::pcre2_set_offset_limit_8(context, request.last_start);
        }
    }

    /// Pairs of start and end, of the whole match and of each group.
    fn positions(&self) -> &[usize] {
        // SAFETY: PCRE2 keeps `count` pairs at `first` as long as the match data lives, and a match has
        // written them.
        unsafe {
            let count = c::pcre2_get_ovector_count_8(self.data.as_ptr()) as usize;
            let first = c::pcre2_get_ovector_pointer_8(self.data.as_ptr());
            std::slice::from_raw_parts(first, 2 * count)
        }
    }

    /// Keeps it for the thread's next match, unless it has grown.
    fn keep(self) {
        // SAFETY: the match data is alive.
        let groups = unsafe { c::pcre2_get_ovector_count_8(self.data.as_ptr()) };
        if self.largest.get() <= KEPT_BYTES && groups == KEPT_GROUPS {
            // Fails only while the thread ends; then it is dropped.
            let _ = KEPT.try_with(|kept| kept.set(Some(self)));
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: nothing else frees them, and no match is going on with them.
        unsafe {
            c::pcre2_match_data_free_8(self.data.as_ptr());
            c::pcre2_match_context_free_8(self.context.as_ptr());
        }
    }
}

/// The argument of the library's callback. The bindings leave it out. Its beginning is the same in all versions.
#[repr(C)]
struct Block {
    version: u32,
    number: u32,
    group_top: u32,
    group_last: u32,
    positions: *mut usize,
    mark: *const u8,
    subject: *const u8,
    subject_length: usize,
    start_match: usize,
    current_position: usize,
}

type CallBack = unsafe extern "C" fn(*mut Block, *mut c_void) -> c_int;

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
    #[link_name = "pcre2_set_callout_8"]
    fn set_callout(
        context: *mut c::pcre2_match_context_8,
        call_back: Option<CallBack>,
        argument: *mut c_void,
    ) -> c_int;
}

/// Called before every item of a watched pattern; a negative number ends the match with that error.
unsafe extern "C" fn call_back(block: *mut Block, argument: *mut c_void) -> c_int {
    // SAFETY: PCRE2 gives a block that lives as long as the call, and the argument that `search` set: a
    // pointer to its
    // `watch`, which nothing else uses during the search.
    let is_over = unsafe {
        let watch = argument.cast::<Watch<'_>>();
        (*watch)((*block).current_position)
    };
    if is_over { c::PCRE2_ERROR_CALLOUT } else { 0 }
}

/// Allocates for match data.
unsafe extern "C" fn allocate(bytes: usize, largest: *mut c_void) -> *mut c_void {
    // SAFETY: PCRE2 gives what `Scratch::new` gave it, a cell that outlives the match data.
    unsafe {
        let largest = largest.cast::<Cell<usize>>();
        (*largest).set((*largest).get().max(bytes));
        malloc(bytes)
    }
}

/// Frees what [`allocate`] returned.
unsafe extern "C" fn release(memory: *mut c_void, _largest: *mut c_void) {
    // SAFETY: it is the result of `malloc`, or null.
    unsafe { free(memory) }
}

fn answer(outcome: c_int) -> Answer {
    match outcome {
        c::PCRE2_ERROR_NOMATCH => Answer::NoMatch,
        c::PCRE2_ERROR_MATCHLIMIT | c::PCRE2_ERROR_DEPTHLIMIT => Answer::StepsExceeded,
        c::PCRE2_ERROR_HEAPLIMIT | c::PCRE2_ERROR_NOMEMORY => Answer::MemoryExceeded,
        c::PCRE2_ERROR_CALLOUT => Answer::Stopped,
        other => Answer::Failed(words(other)),
    }
}

/// The version of the linked library, with the date of its release.
pub(crate) fn version() -> String {
    // SAFETY: without a place to write to, the library returns how many bytes it would write.
    let length = unsafe { c::pcre2_config_8(c::PCRE2_CONFIG_VERSION, ptr::null_mut()) };
    let mut text = vec![0_u8; usize::try_from(length).unwrap_or(0)];
    if !text.is_empty() {
        // SAFETY: the buffer has as many writable bytes as the library has just asked for.
        unsafe { c::pcre2_config_8(c::PCRE2_CONFIG_VERSION, text.as_mut_ptr().cast()) };
    }
    // The last byte is zero.
    text.pop();
    String::from_utf8_lossy(&text).into_owned()
}

/// PCRE2's message for one of its errors.
fn words(error: c_int) -> String {
    let mut text = [0_u8; 256];
    // SAFETY: the buffer has `text.len()` writable bytes; the library ends what it writes there with a zero.
    let length = unsafe { c::pcre2_get_error_message_8(error, text.as_mut_ptr(), text.len()) };
    let length = usize::try_from(length).unwrap_or(0);
    String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Option<usize> {
        KEPT.with(|kept| {
            let scratch = kept.take();
            let largest = scratch.as_ref().map(|scratch| scratch.largest.get());
            kept.set(scratch);
            largest
        })
    }

    /// The memory of a match that went deep stayed with its thread for ever, were its size not known.
    #[test]
    fn memory_that_has_grown_is_not_kept() {
        let code = Code::compile("^(?:a|b)*$", 0, Watched::BetweenStarts).expect("it compiles");
        let matches = |text: &str| {
            let request =
                Request { text, start: 0, last_start: text.len(), steps_max: 10_000_000, kib_max: 64 << 10 };
            code.search(&request, &mut |_| false, |_| ()).is_ok()
        };
        assert!(matches("abab"));
        let small = kept().expect("it is kept");
        assert!((1_000..=KEPT_BYTES).contains(&small), "{small}");
        assert!(matches(&"ab".repeat(20_000)));
        assert_eq!(kept(), None);
        assert!(matches("abab"));
        assert_eq!(kept(), Some(small));
    }
}
