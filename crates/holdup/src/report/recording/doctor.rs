//! What this machine and user allow to record, for people and for programs.

use holdup_record::Backend;
use holdup_record::doctor::{self, Container, Diagnosis, Probe};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::document::{Column, Document, Ink, Table, Text, ink};
use crate::text;

/// The diagnosis for people.
pub fn screen(diagnosis: &Diagnosis) -> Document {
    let mut screen = Document::default();
    screen.headline(headline(diagnosis));
    screen.paragraph(facts(&diagnosis.probe));
    screen.gap();
    let mut abilities = Table::new([Column::left(""), Column::left(""), Column::left("").wrapped()]);
    for ability in &diagnosis.abilities {
        let word = if ability.works() { ink(Ink::Good, "yes") } else { ink(Ink::Bad, "no") };
        abilities.row([word, ability.seeing.to_string().into(), ability.seeing.adds().into()]);
        if let Some(missing) = &ability.missing {
            abilities.row(["".into(), Text::default(), format!("But {}.", missing.why).into()]);
        }
    }
    screen.indented(2, |inner| inner.table(abilities));
    let grants = grants(diagnosis);
    if !grants.is_empty() {
        screen.gap();
        screen.paragraph("To see more, the least that grants it:");
        for (command, adds) in grants {
            screen.indented(2, |inner| {
                inner.command([command]);
                inner.indented(2, |inner| inner.paragraph(adds));
            });
        }
    }
    for note in &diagnosis.notes {
        screen.gap();
        screen.hanging(2, format!("Note: {note}."));
    }
    screen
}

fn headline(diagnosis: &Diagnosis) -> String {
    let all = diagnosis.abilities.len();
    let works = diagnosis.abilities.iter().filter(|ability| ability.works()).count();
    match diagnosis.backend() {
        Some(Backend::Sampler) => {
            "holdup can sample here: it looks at threads from outside, 20 to 1,000 times a second, \
                                   because the kernel gives it no events."
                .to_owned()
        }
        Some(_) if works == all => "holdup can record everything here.".to_owned(),
        Some(_) => {
            format!("holdup can record here: {works} of the {all} kinds of facts, the most important among them.")
        }
        None => "holdup cannot record here yet: it needs context switches and lock waits, or the right to look into \
                 other processes."
            .to_owned(),
    }
}

/// The settings that decide it, in one sentence.
fn facts(probe: &Probe) -> String {
    let user = if probe.uid == 0 { "root".to_owned() } else { format!("user {}", probe.uid) };
    let mut parts = vec![format!("kernel {}", probe.kernel), user];
    if let Some(level) = probe.paranoid {
        parts.push(format!("kernel.perf_event_paranoid {level} ({})", doctor::level_meaning(level)));
    }
    match probe.container {
        Container::None => {}
        Container::Docker => parts.push("in a Docker container".to_owned()),
        Container::Podman => parts.push("in a Podman container".to_owned()),
    }
    if probe.filtered {
        parts.push("system calls are filtered".to_owned());
    }
    format!("This is {}.", parts.join(", "))
}

/// The commands that help, each once, with what they add.
fn grants(diagnosis: &Diagnosis) -> Vec<(&str, String)> {
    let mut grants: Vec<(&str, Vec<String>)> = Vec::new();
    for ability in &diagnosis.abilities {
        let Some(command) = ability.missing.as_ref().and_then(|missing| missing.grant.as_deref()) else {
            continue;
        };
        let name = ability.seeing.to_string();
        match grants.iter_mut().find(|(known, _)| *known == command) {
            Some((_, names)) => names.push(name),
            None => grants.push((command, vec![name])),
        }
    }
    grants.into_iter().map(|(command, names)| (command, format!("adds {}", text::list(&names)))).collect()
}

/// The diagnosis as JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Rights to record")]
pub struct Rights<'a> {
    /// Name and version of this form.
    #[schemars(extend("const" = "holdup-doctor-1"))]
    schema: &'static str,
    /// Whether holdup record works at all.
    can_record: bool,
    /// By what it captures here: programs inside the kernel, performance events, or looks from outside, which tell
    /// shares of time, locks and holders, but neither numbers of switches nor short waits; null if it cannot.
    capture: Option<Backend>,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
}

impl<'a> Rights<'a> {
    /// The diagnosis in this form.
    pub fn new(diagnosis: &'a Diagnosis) -> Rights<'a> {
        Rights {
            schema: "holdup-doctor-1",
            can_record: diagnosis.can_record(),
            capture: diagnosis.backend(),
            diagnosis,
        }
    }
}
