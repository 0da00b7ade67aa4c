BEGIN TRANSACTION;
CREATE TABLE cutline_analysts (
	dataset_id INTEGER NOT NULL, 
	analyst TEXT NOT NULL, 
	limit_rdp TEXT, 
	limit_delta TEXT, 
	spent_rdp TEXT NOT NULL, 
	spent_delta TEXT NOT NULL, 
	PRIMARY KEY (dataset_id, analyst), 
	FOREIGN KEY(dataset_id) REFERENCES cutline_datasets (id)
);
INSERT INTO "cutline_analysts" VALUES(1,'bob','696177563130175/4503599627370496','4722366482869645/37778931862957161709568','26733218424179937/576460752303423488','944473296573929/37778931862957161709568');
INSERT INTO "cutline_analysts" VALUES(1,'joe',NULL,NULL,'4455536404029039/144115188075855872','0');
CREATE TABLE cutline_costs (
	digest TEXT NOT NULL, 
	cost TEXT NOT NULL, 
	PRIMARY KEY (digest)
);
INSERT INTO "cutline_costs" VALUES('2cd0fc22e74862b1e1ed3c4deb507ae0a81623456391832c6176e3552ca30dff','{"adjacency":"add-remove","uses":[{"curve":{"epsilon":0.12757020055580753,"kind":"bounded-range"},"delta":2.5e-08,"times":1}]}');
INSERT INTO "cutline_costs" VALUES('c602f27149c58b9d9d15d3eb8cbe33c97141471251e72ae52f149114349976ec','{"adjacency":"add-remove","uses":[{"curve":{"epsilon":0.12757020055580753,"kind":"bounded-range"},"delta":0.0,"times":1}]}');
INSERT INTO "cutline_costs" VALUES('f18d27daec13b0d763a1d9e78e76a1e52edf4cda740e1a46094d618777b2e097','{"adjacency":"add-remove","uses":[{"curve":{"epsilon":0.08905685715761112,"kind":"bounded-range"},"delta":0.0,"times":1}]}');
CREATE TABLE cutline_datasets (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	adjacency TEXT NOT NULL, 
	unit TEXT, 
	epsilon TEXT NOT NULL, 
	delta TEXT NOT NULL, 
	releases INTEGER NOT NULL, 
	filter_order TEXT NOT NULL, 
	filter_rdp TEXT NOT NULL, 
	filter_delta TEXT NOT NULL, 
	spent_rdp TEXT NOT NULL, 
	spent_delta TEXT NOT NULL, 
	entries BIGINT NOT NULL, 
	limited INTEGER NOT NULL, 
	created TEXT NOT NULL, 
	closed TEXT, 
	version TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "cutline_datasets" VALUES(1,'visits','ann','add-remove','user_id','1.0','1e-06',10,'16.0','0.3091649439258215','2.5e-07','44555364040296093/576460752303423488','944473296573929/37778931862957161709568',3,1,'2026-11-16T15:46:06.765746Z',NULL,'0.1.0');
INSERT INTO "cutline_datasets" VALUES(2,'trips','eve','replace',NULL,'1.0','1e-06',10,'16.0','0.3091649439258215','2.5e-07','0','0',0,0,'2026-11-16T15:46:06.899126Z','2026-11-16T15:46:07.011018Z','0.1.0');
CREATE TABLE cutline_entries (
	id INTEGER NOT NULL, 
	dataset_id INTEGER NOT NULL, 
	analyst TEXT, 
	mechanism TEXT NOT NULL, 
	cost TEXT NOT NULL, 
	reserved_rdp TEXT NOT NULL, 
	reserved_delta TEXT NOT NULL, 
	at TEXT NOT NULL, 
	version TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (dataset_id, id), 
	FOREIGN KEY(dataset_id) REFERENCES cutline_datasets (id), 
	FOREIGN KEY(cost) REFERENCES cutline_costs (digest)
);
INSERT INTO "cutline_entries" VALUES(1,1,'joe','{"name": "test", "n": 0}','2cd0fc22e74862b1e1ed3c4deb507ae0a81623456391832c6176e3552ca30dff','4455536404029039/144115188075855872','944473296573929/37778931862957161709568','2026-11-16T15:46:06.930267Z','0.1.0');
INSERT INTO "cutline_entries" VALUES(2,1,'bob','{"name": "test", "n": 1}','2cd0fc22e74862b1e1ed3c4deb507ae0a81623456391832c6176e3552ca30dff','4455536404029039/144115188075855872','944473296573929/37778931862957161709568','2026-11-16T15:46:06.975673Z','0.1.0');
INSERT INTO "cutline_entries" VALUES(3,1,'bob','{"name": "test", "n": 2}','2cd0fc22e74862b1e1ed3c4deb507ae0a81623456391832c6176e3552ca30dff','4455536404029039/144115188075855872','944473296573929/37778931862957161709568','2026-11-16T15:46:06.987950Z','0.1.0');
CREATE TABLE cutline_schema (
	version INTEGER NOT NULL
);
INSERT INTO "cutline_schema" VALUES(1);
CREATE TABLE cutline_settlements (
	entry_id INTEGER NOT NULL, 
	cost TEXT NOT NULL, 
	settled_rdp TEXT NOT NULL, 
	settled_delta TEXT NOT NULL, 
	at TEXT NOT NULL, 
	version TEXT NOT NULL, 
	PRIMARY KEY (entry_id), 
	FOREIGN KEY(entry_id) REFERENCES cutline_entries (id), 
	FOREIGN KEY(cost) REFERENCES cutline_costs (digest)
);
INSERT INTO "cutline_settlements" VALUES(1,'c602f27149c58b9d9d15d3eb8cbe33c97141471251e72ae52f149114349976ec','4455536404029039/144115188075855872','0','2026-11-16T15:46:06.959336Z','0.1.0');
INSERT INTO "cutline_settlements" VALUES(3,'f18d27daec13b0d763a1d9e78e76a1e52edf4cda740e1a46094d618777b2e097','8911072808063781/576460752303423488','0','2026-11-16T15:46:06.999954Z','0.1.0');
CREATE TRIGGER cutline_entries_no_update BEFORE UPDATE ON cutline_entries BEGIN SELECT RAISE(ABORT, 'cutline_entries is append-only'); END;
CREATE TRIGGER cutline_entries_no_delete BEFORE DELETE ON cutline_entries BEGIN SELECT RAISE(ABORT, 'cutline_entries is append-only'); END;
CREATE TRIGGER cutline_settlements_no_update BEFORE UPDATE ON cutline_settlements BEGIN SELECT RAISE(ABORT, 'cutline_settlements is append-only'); END;
CREATE TRIGGER cutline_settlements_no_delete BEFORE DELETE ON cutline_settlements BEGIN SELECT RAISE(ABORT, 'cutline_settlements is append-only'); END;
CREATE TRIGGER cutline_costs_no_update BEFORE UPDATE ON cutline_costs BEGIN SELECT RAISE(ABORT, 'cutline_costs is append-only'); END;
CREATE TRIGGER cutline_costs_no_delete BEFORE DELETE ON cutline_costs BEGIN SELECT RAISE(ABORT, 'cutline_costs is append-only'); END;
COMMIT;
