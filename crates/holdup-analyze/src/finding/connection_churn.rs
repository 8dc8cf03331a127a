//! connection-churn: CPU time goes to making encrypted connections: each begins with keys that both sides agree upon,
//! and few requests are made through it.
//!
//! Signs and thresholds: [`LEAST_SHARE`] of the CPU samples, a hundred or more, are below what does that: of
//! Go's `crypto/tls`, OpenSSL, Java, GnuTLS and Mbed TLS.
//!
//! The place is the function of the program below which most of these samples are. The severity is their share as a
//! share of the working time.
//!
//! How it can be wrong: a server cannot know whether its clients could keep their connections.

use super::weigh;
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Facts, Site};
use crate::names::Frame;

pub(super) const RULE: Rule = Rule { kind: Kind::ConnectionChurn, judge, evidence: &["handshakes_share", "samples"] };

pub(super) const LEAST_SHARE: f64 = 0.2;

/// Functions that agree upon keys, none of which calls another of its line; lines of one library may.
const LIBRARIES: [&[&str]; 5] = [
    &["crypto/tls.(*Conn).handshakeContext"],
    &["sun.security.ssl.HandshakeContext.dispatch"],
    &["gnutls_handshake"],
    &["mbedtls_ssl_handshake"],
    &["ossl_statem_connect", "ossl_statem_accept"],
];
/// Where a client of Go waits for a connection.
const WAITS_FOR_ONE: &str = "net/http.(*Transport).getConn";
/// Where a library's own functions have no names.
const OPENSSL: &str = "SSL_do_handshake";

fn judge(facts: &Facts) -> Vec<Finding> {
    let below = |names: &[&str]| weigh::samples_below(facts, |frame| weigh::is_any(frame, names));
    let [named @ .., openssl] = LIBRARIES.map(below);
    let hits = named.iter().sum::<u64>() + openssl.max(below(&[OPENSSL]));
    let finding = Finding::new(Kind::ConnectionChurn, Cure::KeepConnections, weigh::record_again());
    weigh::taken(facts, hits, ("handshakes_share", LEAST_SHARE), || place(facts), finding).into_iter().collect()
}

/// Of the functions of the program below which that is done, the one with most samples; else where most goroutines wait
/// for a connection that another makes for them; else any.
fn place(facts: &Facts) -> Option<Site> {
    let shakes =
        |frame: &Frame| weigh::is_any(frame, &[OPENSSL]) || LIBRARIES.iter().any(|names| weigh::is_any(frame, names));
    let hottest = weigh::hottest_below(facts, shakes);
    let waits = facts.goroutines.iter().flat_map(|of| &of.doing).filter(|group| {
        let site = &group.site;
        site.is_by_program() && site.call_path.iter().any(|frame| weigh::is_any(frame, &[WAITS_FOR_ONE]))
    });
    let waiting = || waits.max_by(|a, b| a.mean.total_cmp(&b.mean)).map(|group| &group.site);
    hottest.filter(|site| site.is_by_program()).or_else(waiting).or(hottest).cloned()
}
