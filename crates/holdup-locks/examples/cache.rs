//! A cache that eight threads share: every page is rendered once, whoever asks first, and can be thrown out at any
//! time.
//!
//! `cargo run -p holdup-locks --example cache`

use holdup_locks::technique::{ShardedCounter, TableMap};
use std::sync::Arc;

static RENDERED: ShardedCounter = ShardedCounter::new();

struct Cache {
    /// `Arc`, because no reference leaves the map: what `get` copies must be cheap to copy.
    pages: TableMap<String, Arc<str>>,
}

impl Cache {
    fn page(&self, path: &str) -> Arc<str> {
        // A look first, so that a hit makes no key.
        self.pages.get(path).unwrap_or_else(|| {
            // Exactly one thread runs the closure for a path that is not there.
            self.pages.get_or_insert_with(path.to_owned(), || render(path))
        })
    }
}

fn render(path: &str) -> Arc<str> {
    RENDERED.add(1);
    format!("<h1>{path}</h1>").into()
}

fn main() {
    let cache = Cache { pages: TableMap::new() };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for round in 0..1_000 {
                    let path = format!("/page/{}", round % 50);
                    assert_eq!(*cache.page(&path), *format!("<h1>{path}</h1>"));
                }
            });
        }
    });
    println!("8,000 requests for {} pages, rendered {} times", cache.pages.len(), RENDERED.sum());
    assert_eq!(RENDERED.sum(), 50);

    // A reader that still has the page keeps it; the map forgets it at once.
    let kept = cache.page("/page/7");
    assert!(cache.pages.remove("/page/7").is_some());
    assert_eq!((cache.pages.len(), &*kept), (49, "<h1>/page/7</h1>"));
}

#[test]
fn runs() {
    main();
}
