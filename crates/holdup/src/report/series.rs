//! A plot as data: axes, lines and points with their intervals; the terminal and the page draw it.
