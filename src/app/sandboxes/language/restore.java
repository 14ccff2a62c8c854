if (System.getProperty("sponde.env.NAME") != null) System.setProperty("NAME", System.getProperties().remove("sponde.env.NAME").toString()); else System.clearProperty("NAME");
