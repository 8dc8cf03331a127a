#!/bin/sh
# A shop's database: `orders_server.sh PORT` makes it in ./shop if it is not there, and serves it until its end.
# As root or as you; it listens on this machine alone.
set -e
PATH="$PATH:/usr/sbin"
if [ ! -d shop ]; then
    mariadb-install-db --no-defaults --user="$(id -un)" --auth-root-authentication-method=normal --datadir="$PWD/shop" >/dev/null
    cat >shop/init.sql <<'SQL'
CREATE DATABASE IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (id INT AUTO_INCREMENT PRIMARY KEY, item INT);
CREATE USER IF NOT EXISTS shop@127.0.0.1;
GRANT ALL ON shop.* TO shop@127.0.0.1;
SQL
fi
exec mariadbd --no-defaults --user="$(id -un)" --bind-address=127.0.0.1 --port="$1" --skip-name-resolve \
    --socket="$PWD/shop/socket" --datadir="$PWD/shop" --init-file="$PWD/shop/init.sql" >server.log 2>&1
