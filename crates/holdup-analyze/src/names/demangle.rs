//! Names as people write them: demangled, without hashes, parameters, suffixes of compilers, and endless template
//! arguments.

/// Longest list of template or generic arguments that is kept.
const MAX_ARGUMENTS: usize = 48;

/// Longest name that is worth printing.
const MAX_NAME: usize = 240;

/// The name of a function or variable as the programmer knows it.
pub(super) fn demangle(raw: &str) -> String {
    let bare = without_suffix(raw);
    let name = rust(bare).or_else(|| cpp(bare)).unwrap_or_else(|| bare.to_owned());
    truncate(shorten_arguments(&name))
}

/// Strips a symbol's version (`@@GLIBC_2.2.5`) and what compilers add to copies of a function (`.isra.0`, `.cold`,
/// `.llvm.123`).
fn without_suffix(raw: &str) -> &str {
    const SUFFIXES: [&str; 8] =
        [".isra.", ".part.", ".constprop.", ".cold", ".llvm.", ".lto_priv.", ".localalias", ".abi0"];
    let raw = raw.split('@').next().filter(|name| !name.is_empty()).unwrap_or(raw);
    let cut = SUFFIXES.iter().filter_map(|suffix| raw.find(suffix)).filter(|at| *at > 0).min();
    &raw[..cut.unwrap_or(raw.len())]
}

fn rust(raw: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(raw).ok()?;
    // The alternate form leaves out the hash.
    Some(without_brackets(format!("{demangled:#}")))
}

/// `<Mutex>::lock`, as newer compilers mangle methods of a type, is `Mutex::lock`; `<T as Trait>::method` stays.
fn without_brackets(name: String) -> String {
    let inherent = || {
        let len = length_of_arguments(&name).filter(|_| name.starts_with('<'))?;
        let (kind, method) = (&name[1..len - 1], &name[len..]);
        let plain = kind.starts_with(|first: char| first.is_alphabetic()) && !kind.contains(" as ");
        (plain && method.starts_with("::")).then(|| format!("{kind}{method}"))
    };
    inherent().unwrap_or(name)
}

fn cpp(raw: &str) -> Option<String> {
    if !raw.starts_with("_Z") && !raw.starts_with("__Z") {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(raw).ok()?;
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let name = symbol.demangle_with_options(&options).ok()?;
    Some(lambda_run_by_library(&name).map(str::to_owned).unwrap_or(name))
}

/// The lambda that a function of the library was made to run: a thread's, a task's or a `std::function`'s. Its code is
/// there, unless it was kept apart.
fn lambda_run_by_library(name: &str) -> Option<&str> {
    let runs = name.starts_with("std::") && (name.ends_with("::_M_run") || name.ends_with("::_M_invoke"));
    let at = name.find("{lambda(").filter(|_| runs)?;
    let end = at + name[at..].find("#").and_then(|number| Some(number + name[at + number..].find('}')? + 1))?;
    let mut depth = 0;
    let outside = name[..at].char_indices().rev().find(|(_, c)| {
        depth += match c {
            ')' | '>' => 1,
            '(' | '<' => -1,
            _ => 0,
        };
        depth < 0 || (depth == 0 && matches!(c, ',' | ' '))
    });
    Some(&name[outside.map_or(0, |(at, c)| at + c.len_utf8())..end])
}

/// Replaces long lists of arguments by `<...>`: `std::map<int, std::vector<...> >` and the like tell less than they
/// hide.
fn shorten_arguments(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(open) = rest.find('<') {
        let begins_argument = open > 0 && !rest[..open].ends_with("operator") && !rest[..open].ends_with('<');
        let closed = begins_argument.then(|| length_of_arguments(&rest[open..])).flatten();
        match closed {
            Some(len) if len > MAX_ARGUMENTS => {
                out.push_str(&rest[..open]);
                out.push_str("<...>");
                rest = &rest[open + len..];
            }
            Some(len) => {
                out.push_str(&rest[..open + len]);
                rest = &rest[open + len..];
            }
            None => {
                out.push_str(&rest[..=open]);
                rest = &rest[open + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Length of a list in angle brackets with the brackets, if it ends; the `>` of `->` is none.
fn length_of_arguments(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut before = 0_u8;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if before != b'-' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        before = byte;
    }
    None
}

fn truncate(mut name: String) -> String {
    if name.len() > MAX_NAME {
        let end = (0..=MAX_NAME).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(end);
        name.push_str("...");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_runs_is_known_by_the_lambda() {
        let thread = "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJZ4mainEUlvE_EEEEE6_M_runEv";
        assert_eq!(demangle(thread), "main::{lambda()#1}");
        let function = "_ZNSt17_Function_handlerIFvvEZN4Pool5startEiEUlvE0_E9_M_invokeERKSt9_Any_data";
        assert_eq!(demangle(function), "Pool::start(int)::{lambda()#2}");
        let plain = "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJPFviEiEEEEE6_M_runEv";
        assert!(demangle(plain).starts_with("std::thread::_State_impl<"), "{}", demangle(plain));
    }

    #[test]
    fn names_are_what_programmers_write() {
        for (raw, name) in [
            ("main", "main"),
            ("pthread_mutex_lock@@GLIBC_2.2.5", "pthread_mutex_lock"),
            ("_ZN4Pool3getEv", "Pool::get"),
            ("_ZN4Pool3getEi.isra.0", "Pool::get"),
            ("work.constprop.0.cold", "work"),
            ("_ZNSt5mutex4lockEv", "std::mutex::lock"),
            ("_ZN6holdup4main17h0123456789abcdefE", "holdup::main"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("main.(*Pool).get", "main.(*Pool).get"),
            ("runtime.futex.abi0", "runtime.futex"),
            ("_Z", "_Z"),
            ("", ""),
            (".cold", ".cold"),
        ] {
            assert_eq!(demangle(raw), name, "{raw}");
        }
    }

    #[test]
    fn methods_stand_without_brackets() {
        for (name, bare) in [
            ("<std::sys::Mutex>::lock", "std::sys::Mutex::lock"),
            ("<a::Map<K, V>>::get", "a::Map<K, V>::get"),
            ("<T as a::Get>::get", "<T as a::Get>::get"),
            ("<[T]>::len", "<[T]>::len"),
            ("a::b", "a::b"),
        ] {
            assert_eq!(without_brackets(name.to_owned()), bare);
        }
    }

    #[test]
    fn long_arguments_are_left_out() {
        let long = "a".repeat(60);
        assert_eq!(shorten_arguments(&format!("Map<{long}, B<{long}> >::get")), "Map<...>::get");
        assert_eq!(shorten_arguments("Map<int, B<char> >::get"), "Map<int, B<char> >::get");
        assert_eq!(shorten_arguments("X::operator<<"), "X::operator<<");
        assert_eq!(shorten_arguments("X::operator-><int>"), "X::operator-><int>");
        assert_eq!(shorten_arguments("<T as core::fmt::Debug>::fmt"), "<T as core::fmt::Debug>::fmt");
        assert_eq!(shorten_arguments("odd<"), "odd<");
    }

    #[test]
    fn a_name_has_an_end() {
        assert!(demangle(&"é".repeat(1000)).len() <= MAX_NAME + 3);
    }
}
